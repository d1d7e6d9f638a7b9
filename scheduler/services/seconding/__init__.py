"""More than a hundred jobs of others end only when a second person agrees.

`counting.py`: what one person may end alone; `rights.py`: whom to ask; `proposing.py` and
`deciding.py`: the moves; `ending.py`: what the second person's word does.
"""
