"""Every login on every hop, with real certificates, on the real servers."""
