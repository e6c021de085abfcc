"""The search of a study: sampling candidates, racing trials, storing results and selecting the winner."""
