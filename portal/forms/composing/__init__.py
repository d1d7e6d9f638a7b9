"""What fills the composer: texts and templates."""
