"""What several competing methods share."""
