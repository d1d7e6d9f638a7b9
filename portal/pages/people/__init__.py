"""Pages of people: roles of the organisation, who acts for whom, accounts of programs."""
