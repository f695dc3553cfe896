"""Unrolled: from recurrent networks to attention, and back. The code of the course, one module a chapter."""
