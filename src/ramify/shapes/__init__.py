"""Shapes: rules for what work exists and what follows an outcome. Each is one module; none knows another."""
