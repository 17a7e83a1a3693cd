"""The version, which every zone may import. Zone: PUBLIC."""

from __future__ import annotations

__version__ = "0.1.0"
