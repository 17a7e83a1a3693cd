"""The version, where every zone may read it. Zone: PUBLIC."""

from __future__ import annotations

__version__ = "0.1.0.dev0"
