"""How often the true cause is named first: public models, planted defects, and the rounding of other devices."""
