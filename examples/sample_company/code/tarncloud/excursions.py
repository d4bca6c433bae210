"""Find excursions: periods in which a shipment was outside of its temperature band."""

from dataclasses import dataclass
from datetime import datetime, timedelta

# A door that opens for loading is no excursion if the goods recover within this time.
DOOR_EVENT = timedelta(minutes=10)


@dataclass(frozen=True)
class Excursion:
    started_at: datetime
    ended_at: datetime
    peak_c: float


def find_excursions(readings, low_c, high_c):
    """Return the excursions of readings [(time, celsius)], which must be in order of time.

    Readings marked as not certified (ERR-4417) count like all others: the goods do not care about our paperwork.
    """
    found, started, peak = [], None, None
    for at, celsius in readings:
        if low_c <= celsius <= high_c:
            if started and at - started > DOOR_EVENT:
                found.append(Excursion(started, at, peak))
            started = peak = None
            continue
        distance = max(low_c - celsius, celsius - high_c)
        if started is None:
            started, peak = at, celsius
        elif distance > max(low_c - peak, peak - high_c):
            peak = celsius
    return found


def mean_kinetic_temperature(celsius, activation_kj_per_mol=83.144):
    """Return the mean kinetic temperature in degrees Celsius (Haynes 1971), for equally spaced readings."""
    from math import exp, log

    gas_constant = 0.0083144
    kelvin = [c + 273.15 for c in celsius]
    ratio = activation_kj_per_mol / gas_constant
    return ratio / -log(sum(exp(-ratio / k) for k in kelvin) / len(kelvin)) - 273.15
