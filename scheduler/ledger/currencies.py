"""How many decimals a currency's smallest unit has (ISO 4217, list one): a table, no constant."""

from __future__ import annotations

from decimal import Decimal

from scheduler.ledger.exact import EXACT, half_even

_NO_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_TWO_DECIMALS = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD "
    "CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ "
    "GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL "
    "MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR "
    "PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT "
    "TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD YER ZAR ZMW ZWG"
)
_THREE_DECIMALS = "BHD IQD JOD KWD LYD OMR TND"
EXPONENTS: dict[str, int] = {
    code: exponent
    for exponent, codes in ((0, _NO_DECIMALS), (2, _TWO_DECIMALS), (3, _THREE_DECIMALS))
    for code in codes.split()
}


class UnknownCurrency(ValueError):
    """A code the table does not hold; says what to do."""


def exponent_of(currency: str) -> int:
    """Decimals of the smallest unit. Raises UnknownCurrency."""
    try:
        return EXPONENTS[currency]
    except KeyError:
        raise UnknownCurrency(
            f"currency: {currency!r} is not in the table; use an ISO 4217 code such as EUR"
        ) from None


def minor_units(amount: Decimal, currency: str) -> int:
    """The amount in the smallest unit, half to even."""
    return half_even(amount, exponent_of(currency))


def from_minor(units: int, currency: str) -> Decimal:
    """So many smallest units as an amount, exact."""
    return Decimal(units).scaleb(-exponent_of(currency), EXACT)
