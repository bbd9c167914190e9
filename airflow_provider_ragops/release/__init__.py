"""The release of a serving target: the only place that composes lock, promotion, rollout and clean-up."""
