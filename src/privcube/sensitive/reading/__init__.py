"""How sources are read and looked over. Zone: SENSITIVE."""
