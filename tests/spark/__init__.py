"""Tests that share one session of Spark."""
