"""Who is in the demonstration: five teams, forty people. Names only; nothing is random here."""

from __future__ import annotations

from dataclasses import dataclass

# shown name, slug, projects, guaranteed GPUs
TEAMS: tuple[tuple[str, str, tuple[str, ...], int], ...] = (
    ("Perception", "demo-perception", ("Detection", "Depth"), 16),
    ("Dialogue", "demo-dialogue", ("Assistant", "Evaluation"), 16),
    ("Protein Design", "demo-protein", ("Folding",), 8),
    ("Weather", "demo-weather", ("Nowcast", "Seasonal"), 8),
    ("Robotics", "demo-robotics", ("Grasping",), 4),
)
# shown name, slug, number of the team above, projects
SUB_TEAM = ("Manipulation", "demo-manipulation", 4, ("Tactile",))
# code, name; in the order of the teams
COST_CENTRES = (
    ("DEMO-410", "Products (demo)"),
    ("DEMO-410", "Products (demo)"),
    ("DEMO-520", "Life sciences (demo)"),
    ("DEMO-530", "Earth (demo)"),
)
_FIRST = (
    "Ada Ben Cleo Dario Elif Femi Greta Hugo Ines Jonas Kaya Levi Mara Nils Oana Pavel Qiu Rosa "
    "Sven Tara Umar Vera Wim Xenia Yusuf Zoe Amara Bruno Chiara Dmitri Esra Farid Gloria Henrik "
    "Ilse Jamal Katya Lorenzo Mina Noor"
).split()
_LAST = (
    "Adler Brandt Costa Dahl Eriksen Farkas Gallo Haas Ivanov Jansen Keller Lindqvist Moreau Novak "
    "Okoye Petit Quint Rossi Silva Tanaka"
).split()


@dataclass(frozen=True, slots=True)
class Person:
    """`team` is a number into TEAMS; None for those of the organisation. `role` in it or of it."""

    username: str
    shown: str
    team: int | None
    role: str


def people() -> list[Person]:
    """Two of finance, an operator, an auditor, five leads and thirty-one members."""
    ofs: list[tuple[int | None, str]] = [
        (None, "finance"),
        (None, "finance"),
        (None, "operator"),
        (None, "auditor"),
        *((number, "lead") for number in range(len(TEAMS))),
    ]
    ofs += [(number % len(TEAMS), "member") for number in range(len(_FIRST) - len(ofs))]
    return [
        Person(
            f"demo-{first.lower()}",
            f"{first} {_LAST[number * 7 % len(_LAST)]}",
            team,
            role,
        )
        for number, (first, (team, role)) in enumerate(zip(_FIRST, ofs, strict=True))
    ]
