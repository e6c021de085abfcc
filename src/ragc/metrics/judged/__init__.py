"""What judges say of answers without gold answers, and the labels of people beside it."""
