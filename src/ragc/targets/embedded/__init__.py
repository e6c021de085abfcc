"""A model inside this process, by llama.cpp."""
