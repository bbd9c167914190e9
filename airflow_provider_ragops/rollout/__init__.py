"""Rolling update of a Deployment: plan (data), status (pure), updater (effects)."""
