/* Retry timing of the radio: wait longer after each failure, with jitter, and never let all loggers of a lorry wake at once. */
#include <stdint.h>
#include "random.h"

#define FIRST_WAIT_S 4u
#define LONGEST_WAIT_S 900u

/* Seconds to wait before attempt number `attempt` (0 is the first repeat): 4, 8, 16 … 900, plus up to a quarter. */
uint32_t retry_wait_s(uint8_t attempt)
{
    uint32_t wait = attempt >= 8 ? LONGEST_WAIT_S : FIRST_WAIT_S << attempt;
    if (wait > LONGEST_WAIT_S)
        wait = LONGEST_WAIT_S;
    return wait + random_below(wait / 4 + 1);
}

/* After six hours without an answer: show ERR-4308 and listen only once in 15 minutes, to save the cell. */
int should_sleep(uint32_t silent_s)
{
    return silent_s > 6u * 3600u;
}
