"""Methods that go beyond the four papers: their experiments and what decides their claims."""
