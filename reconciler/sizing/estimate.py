"""A number of bytes that is known within bounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes: the least it can be, what it most likely is, and the most. Rules refuse on `low` and warn inside."""

    low: int
    likely: int
    high: int

    @classmethod
    def exactly(cls, size: int) -> Estimate:
        """A figure without a band."""
        return cls(size, size, size)

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def within(self, below: float, above: float) -> Estimate:
        """The same figure with a wider band: factors of what is likely, such as 0.98 and 1.05."""
        return Estimate(min(self.low, int(self.likely * below)), self.likely, max(self.high, int(self.likely * above)))


NOTHING = Estimate(0, 0, 0)
