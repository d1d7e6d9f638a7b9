"""More than a hundred jobs of others end only when a second person agrees.

`rights.py`: whom to ask; `proposing.py` and `deciding.py`: the moves; `ending.py`: what the second
person's word does. How many one person may end alone: `holding/alone.py`.
"""
