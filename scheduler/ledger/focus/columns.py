"""One registry of columns for all versions: when each came and went, and what may stand in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

VERSIONS = ("1.2", "1.3")
DEFAULT_VERSION = "1.2"


class Form(StrEnum):
    """What a column's cells look like."""

    TEXT = "text"
    DECIMAL = "decimal"
    INTEGER = "integer"
    MOMENT = "moment"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Column:
    """`introduced` and `removed` are versions; empty: always there, never removed.

    `is_mandatory`: the column has to be in the file; `may_be_null`: its cells may be empty.
    """

    name: str
    form: Form = Form.TEXT
    may_be_null: bool = True
    is_mandatory: bool = False
    introduced: str = ""
    removed: str = ""

    def is_in(self, version: str) -> bool:
        """Whether a version has it."""
        since = not self.introduced or version >= self.introduced
        return since and (not self.removed or version < self.removed)


def _must(name: str, form: Form = Form.TEXT, *, null: bool = False) -> Column:
    return Column(name, form, may_be_null=null, is_mandatory=True)


def _may(name: str, form: Form = Form.TEXT, introduced: str = "") -> Column:
    return Column(name, form, introduced=introduced)


_STANDARD = (
    _may("AllocatedMethodDetails", Form.JSON, "1.3"),
    _may("AllocatedMethodId", introduced="1.3"),
    _may("AllocatedResourceId", introduced="1.3"),
    _may("AllocatedResourceName", introduced="1.3"),
    _may("AllocatedTags", Form.JSON, "1.3"),
    _may("AvailabilityZone"),
    _must("BilledCost", Form.DECIMAL),
    _must("BillingAccountId"),
    _must("BillingAccountName", null=True),
    _must("BillingCurrency"),
    _must("BillingPeriodEnd", Form.MOMENT),
    _must("BillingPeriodStart", Form.MOMENT),
    _may("CapacityReservationId"),
    _may("CapacityReservationStatus"),
    _must("ChargeCategory"),
    _must("ChargeClass", null=True),
    _must("ChargeDescription", null=True),
    Column("ChargeFrequency", may_be_null=False),
    _must("ChargePeriodEnd", Form.MOMENT),
    _must("ChargePeriodStart", Form.MOMENT),
    _may("ConsumedQuantity", Form.DECIMAL),
    _may("ConsumedUnit"),
    _must("ContractedCost", Form.DECIMAL),
    _may("ContractedUnitPrice", Form.DECIMAL),
    _must("EffectiveCost", Form.DECIMAL),
    Column("HostProviderName", may_be_null=False, is_mandatory=True, introduced="1.3"),
    _may("InvoiceId"),
    _must("InvoiceIssuerName"),
    _must("ListCost", Form.DECIMAL),
    _may("ListUnitPrice", Form.DECIMAL),
    _may("PricingCategory"),
    _must("PricingQuantity", Form.DECIMAL, null=True),
    _must("PricingUnit", null=True),
    Column("ProviderName", may_be_null=False, is_mandatory=True, removed="1.4"),
    Column("PublisherName", may_be_null=False, is_mandatory=True, removed="1.4"),
    _may("RegionId"),
    _may("RegionName"),
    _may("ResourceId"),
    _may("ResourceName"),
    _may("ResourceType"),
    _must("ServiceCategory"),
    _must("ServiceName"),
    Column("ServiceProviderName", may_be_null=False, is_mandatory=True, introduced="1.3"),
    _may("ServiceSubcategory"),
    _may("SkuId"),
    _may("SkuMeter"),
    _may("SkuPriceDetails", Form.JSON),
    _may("SkuPriceId"),
    _may("SubAccountId"),
    _may("SubAccountName"),
    _may("Tags", Form.JSON),
)
_CUSTOM = (
    _may("x_AttemptNumber", Form.INTEGER),
    _may("x_ChargebackMode"),
    _may("x_ChargeKind"),
    _may("x_CorrectsEntryId", Form.INTEGER),
    _may("x_CorrectsPeriod"),
    _may("x_CostCenterCode"),
    _may("x_DatasetVersion", Form.INTEGER),
    _may("x_GpuCount", Form.INTEGER),
    _may("x_GpuFlavor"),
    _may("x_GpuSeconds", Form.INTEGER),
    _may("x_JobId"),
    _may("x_LedgerEntryId", Form.INTEGER),
    _may("x_LedgerHash"),
    _may("x_PeriodStatus"),
    _may("x_ProjectId"),
    _may("x_ProjectName"),
    _may("x_QueueSeconds", Form.INTEGER),
    _may("x_RateCardId"),
    _may("x_UserPseudonym"),
)


def columns_of(version: str) -> tuple[Column, ...]:
    """A version's columns in the order of a file, our own ones last. Raises ValueError."""
    if version not in VERSIONS:
        raise ValueError(f"focus: {version!r} is not written here; use {' or '.join(VERSIONS)}")
    return tuple(column for column in (*_STANDARD, *_CUSTOM) if column.is_in(version))
