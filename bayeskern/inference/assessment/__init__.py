"""How far the result of a method can be trusted, and why."""
