"""Fine-tuning: a base model, rows of training data and a TOML file become a model that vLLM serves.

    settings (TOML) ──► rows checked ──► base as a directory ──► TRL: checkpoints ──► OUT/model, OUT/card.md

Preferences (`dpo`) and examples (`sft`), with all weights or with LoRA. TRL and torch are imported when
training begins, never before; everything else needs no more than the base install.
"""
