"""The owner of a follower's indexes and topics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owner:
    """A follower of a pipeline, by their names in `cdc.yaml`; stored in everything that it writes."""

    pipeline: str
    follower: str

    def as_json(self) -> dict[str, str]:
        return {"pipeline": self.pipeline, "follower": self.follower}
