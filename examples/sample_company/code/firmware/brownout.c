/* Keep a cold cell alive while the radio sends. See the thread of 4 March 2025 in #firmware. */
#include "power.h"
#include "radio.h"
#include "watchdog.h"

#define COLD_LIMIT_CENTI_C (-3000)   /* below -30 degrees */
#define TX_DBM_NORMAL 14
#define TX_DBM_COLD 10
#define BROWNOUT_MV 2400

/* Choose the sending power: at -35 degrees the cell has 19 ohms inside, and 38 mA would cost 0.7 V. */
int8_t tx_power_dbm(int16_t centi_celsius)
{
    return centi_celsius < COLD_LIMIT_CENTI_C ? TX_DBM_COLD : TX_DBM_NORMAL;
}

/* Send one frame unless the supply is too low; the caller keeps the frame and tries again later. */
enum send_result send_when_safe(const struct frame *frame, int16_t centi_celsius)
{
    if (flash_is_busy())
        return SEND_LATER;           /* never erase and send at once */
    if (supply_mv() < BROWNOUT_MV + 150)
        return SEND_LATER;
    radio_set_power(tx_power_dbm(centi_celsius));
    return radio_send(frame) ? SEND_DONE : SEND_FAILED;
}

/* Erase pages one by one: in the cold one page may take nine seconds, and the watchdog waits for eight. */
void erase_pages(uint32_t first, uint32_t count)
{
    for (uint32_t page = first; page < first + count; page++) {
        watchdog_feed();
        flash_erase_start(page);
        while (flash_is_busy())
            watchdog_feed();
    }
}
