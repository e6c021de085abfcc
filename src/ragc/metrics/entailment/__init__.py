"""Whether a passage entails a claim: a judge, NLI models, or words."""
