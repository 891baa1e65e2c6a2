"""What people do with a posterior: predict, summarise, hand to ArviZ, save."""
