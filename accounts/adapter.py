"""How sign-in behaves: no open sign-up, mail in our own words; how a session finds its person.

Django reads the session first, because only its signed text says whose it is. Here the number of
the person stands before that text, so one statement finds the session, the person and what the
person may do. The number is a hint and no proof: `person_of` believes the signed text alone, as
Django's `get_user` does.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.auth_backends import AuthenticationBackend
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.models import Session
from django.db.models import BigIntegerField, Case, QuerySet, Subquery, Value, When
from django.db.models.functions import Cast, Substr
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from accounts.models import User
from accounts.statements import AskedOnce
from accounts.trees import people_with_rights, with_rights

# In no text that Django signs.
_MARK = "|"
_DIGITS = 19
_BACKEND = "accounts.adapter.PersonBackend"


class AccountAdapter(DefaultAccountAdapter):
    """Local accounts; people come in by invitation only."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Never: an open sign-up would let strangers see how busy the cluster is."""
        return False

    def get_from_email(self) -> str:
        """The sender of password mails."""
        return str(settings.DEFAULT_FROM_EMAIL)

    def format_email_subject(self, subject: str) -> str:
        """One line, under our name."""
        return f"Trainyard: {' '.join(subject.split())}"


class PersonBackend(AuthenticationBackend):
    """allauth's, which signs people in by name or address; a request asks it once for its user."""

    def get_user(self, user_id: Any) -> User | None:
        """The person of a session, and in the same statement what the person may do; None once
        the account is gone or switched off."""
        person = with_rights(user_id)
        return person if person is not None and self.user_can_authenticate(person) else None


class SessionStore(DatabaseStore):
    """Django's store in the database; texts written before this one are read as they are."""

    # Under the name of Django's own class: its signatures hold here, too.
    _person: User | None = None

    def encode(self, session_dict: dict[str, Any]) -> str:
        """Whose it is, then Django's signed text; 0 for nobody."""
        number = int(session_dict.get(SESSION_KEY) or 0)
        return f"{number:0{_DIGITS}d}{_MARK}{super().encode(session_dict)}"

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        """What the signed text says."""
        head, mark, text = str(session_data).partition(_MARK)
        return super().decode(text if mark else head)

    def load(self) -> dict[str, Any]:
        """As Django's; the person is kept for `person_of`."""
        key = self.session_key or ""
        found = _WITH_SESSION.read(key, timezone.now())
        if not found:
            return super().load()
        self._person = found[0]
        return self.decode(found[0].session_read)

    def take_person(self) -> User | None:
        """Who was read with the session, once: whoever asks again asks the database."""
        person, self._person = self._person, None
        return person

    @classmethod
    def end_all_of(cls, person: User) -> int:
        """Sign them out everywhere, by the number before the signed text; how often they were."""
        begins = f"{person.pk:0{_DIGITS}d}{_MARK}"
        return Session.objects.filter(session_data__startswith=begins).delete()[0]


class PersonMiddleware(AuthenticationMiddleware):
    """Django's, with the person who came with the session."""

    def process_request(self, request: HttpRequest) -> None:
        """The user is looked up by whoever asks first."""
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: person_of(request))  # type: ignore[assignment]


def person_of(request: HttpRequest) -> User | AnonymousUser:
    """Whose session it is; the same as Django's `get_user`, mostly without a statement."""
    signed = request.session.get(SESSION_KEY)
    person = request.session.take_person() if isinstance(request.session, SessionStore) else None
    if (
        person is not None
        and person.is_active
        and signed == str(person.pk)
        and request.session.get(BACKEND_SESSION_KEY) == _BACKEND
        and _BACKEND in settings.AUTHENTICATION_BACKENDS
        and constant_time_compare(
            request.session.get(HASH_SESSION_KEY) or "", person.get_session_auth_hash()
        )
    ):
        return person
    return get_user(request)


def _with_session(key: str, now: datetime) -> QuerySet[User]:
    alive = Session.objects.filter(session_key=key, expire_date__gt=now).order_by()
    marked = When(mark_=_MARK, then=Cast(Substr("session_data", 1, _DIGITS), BigIntegerField()))
    number = Case(marked, default=Value(0), output_field=BigIntegerField())
    numbers = alive.annotate(mark_=Substr("session_data", _DIGITS + 1, 1), number_=number)
    text = Subquery(alive.values("session_data"))
    return people_with_rights(Subquery(numbers.values("number_"))).annotate(session_read=text)


_WITH_SESSION = AskedOnce(_with_session)
