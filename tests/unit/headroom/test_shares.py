"""What the annotations of a Namespace come to: two shares of each resource, or what is wrong, in the words that people read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.headroom.shares import (
    LONGEST,
    MAINTENANCE_AVAILABLE,
    MAINTENANCE_QUOTA,
    MOST,
    RESOURCE_QUOTA,
    VM_AVAILABLE,
    Reading,
    Share,
    available,
    divide,
    read_shares,
)

GI = 2**30
QUOTA_FIELD = "metadata.annotations[field.cattle.io/resourceQuota]"
MAINTENANCE_FIELD = "metadata.annotations[harvesterhci.io/maintenanceQuota]"
QUOTA_ALLOWED = 'something like {"limit":{"limitsCpu":"4000m","limitsMemory":"5120Mi"}} is allowed'
MAINTENANCE_ALLOWED = 'something like {"limit":{"limitsCpuPercent":50,"limitsMemoryPercent":50}} is allowed'
PERCENT_ALLOWED = "a whole number from 0 to 100 is allowed, and 0 keeps nothing back"


def written(limit: Any) -> str:
    return msgspec.json.encode({"limit": limit}).decode()


def reading(quota: Any, maintenance: Any) -> Reading:
    """Of two annotations; what is no text is written as `{"limit": …}`, and None is not there."""
    given = {RESOURCE_QUOTA: quota, MAINTENANCE_QUOTA: maintenance}
    texts = {key: value if isinstance(value, str) else written(value) for key, value in given.items() if value is not None}
    return read_shares(texts)


BOTH = {"limitsCpu": "4000m", "limitsMemory": "5120Mi"}


@pytest.mark.parametrize(
    ("quota", "maintenance", "shares"),
    [
        pytest.param(
            BOTH,
            {"limitsCPUPercent": 50, "limitsMemoryPercent": 50},
            {"cpu": Share(2000, 2000), "memory": Share(2560 << 20, 2560 << 20)},
            id="half of both",
        ),
        pytest.param(
            {"limitsCpu": "10000m"}, {"limitsCPUPercent": "50"}, {"cpu": Share(5000, 5000)}, id="a percentage as text"
        ),
        pytest.param({"limitsCpu": "10"}, {"limitsCpuPercent": 50}, {"cpu": Share(5000, 5000)}, id="CPUs without a unit"),
        pytest.param({"LimitsCPU": "10"}, {"LIMITSCPUPERCENT": 50}, {"cpu": Share(5000, 5000)}, id="names in any case"),
        pytest.param(
            {"limitsMemory": "5Gi"}, {"LimitsMemoryPercent": 25.0}, {"memory": Share(15 * GI // 4, 5 * GI // 4)}, id="25.0"
        ),
        pytest.param({"limitsCpu": "1"}, {"limitsCpuPercent": 33}, {"cpu": Share(670, 330)}, id="no remainder"),
        pytest.param({"limitsCpu": "7m"}, {"limitsCpuPercent": 50}, {"cpu": Share(4, 3)}, id="the remainder goes to the VMs"),
        pytest.param({"limitsMemory": "99"}, {"limitsMemoryPercent": 1}, {"memory": Share(99, 0)}, id="less than one byte"),
        pytest.param({"limitsCpu": "4"}, {"limitsCpuPercent": 100}, {"cpu": Share(0, 4000)}, id="100: no VM may start"),
        pytest.param({"limitsCpu": "0"}, {"limitsCpuPercent": 50}, {"cpu": Share(0, 0)}, id="a quota of nothing is a quota"),
        pytest.param({"limitsCpu": "1500u"}, {"limitsCpuPercent": 50}, {"cpu": Share(1, 0)}, id="a quota is rounded down"),
        pytest.param(BOTH, {"limitsCpuPercent": 50}, {"cpu": Share(2000, 2000)}, id="one resource alone"),
        pytest.param(
            BOTH,
            {"limitsCpuPercent": 0, "limitsMemoryPercent": 50},
            {"memory": Share(2560 << 20, 2560 << 20)},
            id="0 is off for that resource",
        ),
        pytest.param(BOTH, {"limitsCpuPercent": "0", "limitsMemoryPercent": None}, {}, id="0 and null"),
        pytest.param(BOTH, {}, {}, id="nothing is kept"),
        pytest.param(BOTH, "{}", {}, id="no limit in it"),
        pytest.param(BOTH, '{"limit":null}', {}, id="a limit of null"),
        pytest.param(BOTH, "", {}, id="an empty annotation is none, as Rancher reads its own"),
        pytest.param(None, None, {}, id="no annotations"),
        pytest.param("{", None, {}, id="a quota that cannot be read, and nothing is kept of it"),
        pytest.param("{", {"limitsCpuPercent": 0}, {}, id="the same with 0"),
        pytest.param(None, {"limitsCpuPercent": 0}, {}, id="0 of a quota that is not there"),
        pytest.param(
            {"limitsCpu": "4", "limitsMemory": "much"}, {"limitsCpuPercent": 50}, {"cpu": Share(2000, 2000)}, id="not asked for"
        ),
        pytest.param(
            {"limitsCpu": "4", "pods": "10", "servicesNodePorts": 3},
            {"limitsCpuPercent": 50},
            {"cpu": Share(2000, 2000)},
            id="what else Rancher limits",
        ),
        pytest.param(
            '{"limit":{"limitsCpu":"4"},"usedLimit":{}}', {"limitsCpuPercent": 50}, {"cpu": Share(2000, 2000)}, id="beside it"
        ),
    ],
)
def test_shares(quota: Any, maintenance: Any, shares: dict[str, Share]) -> None:
    assert reading(quota, maintenance) == Reading(shares)


@pytest.mark.parametrize(
    ("quota", "maintenance", "said"),
    [
        pytest.param(
            BOTH,
            {"limitsCPUPercent": 101},
            f"{MAINTENANCE_FIELD}: limit.limitsCPUPercent is 101; {PERCENT_ALLOWED}",
            id="more than all",
        ),
        pytest.param(
            BOTH,
            {"limitsCPUPercent": "-1", "limitsMemoryPercent": "half"},
            f"{MAINTENANCE_FIELD}: limit.limitsCPUPercent is '-1'; {PERCENT_ALLOWED}; "
            f"{MAINTENANCE_FIELD}: limit.limitsMemoryPercent is 'half'; {PERCENT_ALLOWED}",
            id="every fault is told",
        ),
        pytest.param(BOTH, {"limitsCpuPercent": -1}, f"limit.limitsCpuPercent is -1; {PERCENT_ALLOWED}", id="less than none"),
        pytest.param(BOTH, {"limitsCpuPercent": 12.5}, f"limit.limitsCpuPercent is 12.5; {PERCENT_ALLOWED}", id="a fraction"),
        pytest.param(BOTH, {"limitsCpuPercent": "50%"}, f"limit.limitsCpuPercent is '50%'; {PERCENT_ALLOWED}", id="a sign"),
        pytest.param(BOTH, {"limitsCpuPercent": " 50"}, f"limit.limitsCpuPercent is ' 50'; {PERCENT_ALLOWED}", id="a blank"),
        pytest.param(BOTH, {"limitsCpuPercent": "٥٠"}, f"limit.limitsCpuPercent is '٥٠'; {PERCENT_ALLOWED}", id="other digits"),
        pytest.param(BOTH, {"limitsCpuPercent": ""}, f"limit.limitsCpuPercent is ''; {PERCENT_ALLOWED}", id="an empty text"),
        pytest.param(BOTH, {"limitsCpuPercent": True}, f"limit.limitsCpuPercent is true; {PERCENT_ALLOWED}", id="true"),
        pytest.param(BOTH, {"limitsCpuPercent": [50]}, f"limit.limitsCpuPercent is [50]; {PERCENT_ALLOWED}", id="a list"),
        pytest.param(
            BOTH, {"limitsCpuPercent": "9" * 5000}, f"limit.limitsCpuPercent is '{'9' * 40}…'; {PERCENT_ALLOWED}", id="digits"
        ),
        pytest.param(
            BOTH,
            {"limitCpuPercent": 50},
            f"{MAINTENANCE_FIELD}: limit.limitCpuPercent is not known; limitsCpuPercent and limitsMemoryPercent are, in upper "
            "or lower case",
            id="a name that is not known would be nothing kept",
        ),
        pytest.param(
            BOTH,
            '{"limits":{"limitsCpuPercent":50}}',
            f"{MAINTENANCE_FIELD}: limits is not known; {MAINTENANCE_ALLOWED}",
            id="another name for limit, too",
        ),
        pytest.param(
            BOTH,
            {"limitsCPUPercent": 50, "limitsCpuPercent": 10},
            f"{MAINTENANCE_FIELD}: limit.limitsCpuPercent is there twice, as limitsCPUPercent too",
            id="one name in two cases",
        ),
        pytest.param(
            BOTH,
            '{"limit":{},"Limit":{"limitsCpuPercent":50}}',
            f"{MAINTENANCE_FIELD}: limit is there twice; {MAINTENANCE_ALLOWED}",
            id="two limits",
        ),
        pytest.param(BOTH, "{", f"{MAINTENANCE_FIELD}: '{{' is not JSON; {MAINTENANCE_ALLOWED}", id="malformed"),
        pytest.param(BOTH, " ", f"{MAINTENANCE_FIELD}: ' ' is not JSON; {MAINTENANCE_ALLOWED}", id="blank"),
        pytest.param(BOTH, "\x1b[31m", f"{MAINTENANCE_FIELD}: '\\x1b[31m' is not JSON; {MAINTENANCE_ALLOWED}", id="control"),
        pytest.param(BOTH, '{"limit":{"limitsCpuPercent":NaN}}', "is not JSON", id="no number"),
        pytest.param(BOTH, '{"limit":{"limitsCpuPercent":1e999}}', "limit", id="a number without end"),
        pytest.param(BOTH, "50", f"{MAINTENANCE_FIELD}: '50' is no JSON object; {MAINTENANCE_ALLOWED}", id="a number"),
        pytest.param(
            BOTH, {"limit": 1}, f"{MAINTENANCE_FIELD}: limit.limit is not known; limitsCpuPercent and", id="one limit too many"
        ),
        pytest.param(
            BOTH,
            '{"limit":[1]}',
            f"{MAINTENANCE_FIELD}: limit is [1], and no JSON object; {MAINTENANCE_ALLOWED}",
            id="a list of limits",
        ),
        pytest.param(BOTH, "[" * 9000, "is not JSON", id="nested without end"),
        pytest.param(
            BOTH,
            "x" * (LONGEST + 1),
            f"{MAINTENANCE_FIELD}: it has {LONGEST + 1} characters, and {LONGEST} are read; {MAINTENANCE_ALLOWED}",
            id="too long",
        ),
        pytest.param("{", {"limitsCpuPercent": 50}, f"{QUOTA_FIELD}: '{{' is not JSON; {QUOTA_ALLOWED}", id="malformed quota"),
        pytest.param(
            {"limitsCpu": "4x"},
            {"limitsCpuPercent": 50},
            f"{QUOTA_FIELD}: limit.limitsCpu is '4x': not a quantity; a quantity such as 4 or 4000m, as a text, is allowed",
            id="no quantity",
        ),
        pytest.param(
            {"limitsMemory": "-1Gi"},
            {"limitsMemoryPercent": 50},
            f"{QUOTA_FIELD}: limit.limitsMemory is '-1Gi': negative; a quantity such as 5Gi or 5120Mi, as a text, is allowed",
            id="a quota of less than nothing",
        ),
        pytest.param({"limitsCpu": 4000}, {"limitsCpuPercent": 50}, "limit.limitsCpu is 4000: not a text", id="4 or 4,000?"),
        pytest.param(
            {"limitsCpu": "1e900"}, {"limitsCpuPercent": 50}, f"more than {MOST} thousandths of a CPU", id="more than 64 bits"
        ),
        pytest.param(
            {"limitsMemory": "1e300"}, {"limitsMemoryPercent": 50}, f"more than {MOST} bytes", id="more bytes than that"
        ),
    ],
)
def test_what_is_refused_and_in_which_words(quota: Any, maintenance: Any, said: str) -> None:
    found = reading(quota, maintenance)
    assert not found.shares
    assert said in "; ".join(map(str, found.faults))
    assert all(len(str(one)) < 400 for one in found.faults)


CPU_IDLE = (
    f"{MAINTENANCE_FIELD}: limit.limitsCpuPercent keeps 50 % of a quota that is not there: cpu has no limit; set"
    f" limit.limitsCpu in {QUOTA_FIELD}, or 0 here"
)
MEMORY_IDLE = CPU_IDLE.replace("limitsCpu", "limitsMemory").replace("cpu has", "memory has")


@pytest.mark.parametrize(
    ("quota", "percents", "shares", "said"),
    [
        pytest.param(None, {"limitsCpuPercent": 50}, {}, [CPU_IDLE], id="no quota"),
        pytest.param("", {"limitsCpuPercent": 50}, {}, [CPU_IDLE], id="an empty annotation"),
        pytest.param({"limitsCpu": ""}, {"limitsCpuPercent": 50}, {}, [CPU_IDLE], id="an empty quota"),
        pytest.param({"limitsCpu": "4"}, {"limitsMemoryPercent": 50}, {}, [MEMORY_IDLE], id="a quota of the other resource"),
        pytest.param(
            {"limitsCpu": "4"},
            {"limitsCpuPercent": 50, "limitsMemoryPercent": 50},
            {"cpu": Share(2000, 2000)},
            [MEMORY_IDLE],
            id="the percentages of a quota of CPU alone count for CPU",
        ),
        pytest.param(
            {"limitsCpu": "4"}, {"limitsCpuPercent": 50, "limitsMemoryPercent": 0}, {"cpu": Share(2000, 2000)}, [], id="0"
        ),
    ],
)
def test_a_percentage_of_what_has_no_limit_keeps_nothing_back_and_is_told(
    quota: Any, percents: Any, shares: dict[str, Share], said: list[str]
) -> None:
    found = reading(quota, percents)
    assert (found.shares, found.faults) == (shares, ())
    assert [str(one) for one in found.idle.values()] == said


def test_what_is_written_is_the_format_of_the_design() -> None:
    both = reading(BOTH, {"limitsCPUPercent": 25, "limitsMemoryPercent": 50}).shares
    assert available(both) == {
        VM_AVAILABLE: '{"limit":{"limitsCpu":3000,"limitsMemory":2684354560}}',
        MAINTENANCE_AVAILABLE: '{"limit":{"limitsCpu":1000,"limitsMemory":2684354560}}',
    }
    one = reading({"limitsCpu": "10000m"}, {"limitsCPUPercent": 50}).shares
    assert available(one) == dict.fromkeys((VM_AVAILABLE, MAINTENANCE_AVAILABLE), '{"limit":{"limitsCpu":5000}}')
    assert available({}) == {VM_AVAILABLE: None, MAINTENANCE_AVAILABLE: None}


@given(st.integers(0, MOST), st.integers(0, 100))
def test_the_shares_are_the_quota_and_no_percentage_is_exceeded(quota: int, percent: int) -> None:
    share = divide(quota, percent)
    assert share.vms + share.maintenance == share.whole == quota
    assert share.maintenance * 100 <= quota * percent < (share.maintenance + 1) * 100
    assert share.vms >= 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("limit", "Limit", "limitsCpu", "limitsCPUPercent", "limitscpupercent", "limitsMemoryPercent", "x")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
TEXTS = JSON.map(lambda value: msgspec.json.encode(value).decode()) | st.text(max_size=60)


@given(TEXTS, TEXTS)
def test_whatever_is_written_there_is_read_or_refused(quota: str, maintenance: str) -> None:
    found = read_shares({RESOURCE_QUOTA: quota, MAINTENANCE_QUOTA: maintenance})
    assert not (found.faults and found.shares)
    for fault in found.faults:
        assert fault.annotation in (RESOURCE_QUOTA, MAINTENANCE_QUOTA)
        assert str(fault).isprintable()
    for one in found.shares.values():
        assert one.vms >= 0
        assert one.maintenance >= 0
