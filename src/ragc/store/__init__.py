"""What is stored between runs: replies by their requests (`calls`), and which questions were used."""
