-- Form of the bodies that a receiver gets. A server of the release before sends the standard form to all.
ALTER TABLE webhook_endpoints ADD COLUMN format text NOT NULL DEFAULT 'standard' CHECK (format IN ('standard', 'cloudevents'));
