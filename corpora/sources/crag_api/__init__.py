"""The CRAG mock API as a source of facts."""
