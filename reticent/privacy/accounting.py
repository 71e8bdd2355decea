"""What the recorded events add up to, judged by dp-accounting (extra `[dp]`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from reticent.errors import PrivacyError
from reticent.message import Event


def to_dp_event(event: Event) -> Any:  # Any: dp-accounting has no types
    """The DpEvent that a recorded event describes: {"type": its class, …its fields, events nested likewise}."""
    try:
        from dp_accounting import dp_event
    except ImportError as error:
        raise PrivacyError("composing privacy events needs dp-accounting: pip install 'reticent[dp]'") from error
    kind = getattr(dp_event, str(event.get("type")), None)
    if not (isinstance(kind, type) and issubclass(kind, dp_event.DpEvent)):
        raise PrivacyError(f"{event.get('type')!r} is no event that dp-accounting knows")
    fields = {key: _field(value) for key, value in event.items() if key != "type"}
    return kind(**fields)


def _field(value: object) -> Any:  # Any: as above
    if isinstance(value, Mapping):
        return to_dp_event(value)
    return [_field(item) for item in value] if isinstance(value, list) else value


def epsilon(events: Sequence[Event], delta: float) -> float:
    """The ε of all events together, by privacy loss distributions (zero-out adjacency is composed as add-or-remove one)."""
    if not events:
        return 0.0
    composed = [to_dp_event(event) for event in events]
    from dp_accounting.pld import pld_privacy_accountant

    accountant = pld_privacy_accountant.PLDAccountant()
    for event in composed:
        accountant.compose(event)
    return float(accountant.get_epsilon(delta))
