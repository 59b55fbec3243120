"""Tasks: functions, calls and their options, as users declare them."""
