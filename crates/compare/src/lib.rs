//! Design and run A/B measurements and say what they show.
