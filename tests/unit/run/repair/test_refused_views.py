"""A view's repair that the stream refuses, for an erasure, is told and not compared."""

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.repair.repair import _Repair
from cdc.run.repair_requests import RepairAnswer


def test_a_refused_view_is_not_waited_for() -> None:
    refusal = RepairAnswer(0, reason="an erasure has begun", remedy="repair again")
    streams = SimpleNamespace(put_right=lambda *_: [refusal], wait_for_offset=pytest.fail)
    asked = cast("Any", SimpleNamespace(say=lambda _: None, streams=streams, _wait_for_all=lambda _: None))
    view = cast("Any", SimpleNamespace(name=TableName("public", "totals")))
    with pytest.raises(PreconditionError) as told:
        _Repair._recompute(asked, view, pa.table({"id": [1]}))
    assert (told.value.what, told.value.remedy) == ("an erasure has begun", "repair again")
