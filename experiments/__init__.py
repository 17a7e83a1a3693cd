"""The paper's tables and figures made again, and what came after them; not part of the package."""
