"""How a session finds its person, and when it ends.

Django reads the session first, because only its signed text says whose it is. Here the number of
the person stands before that text, so one statement finds the session, the person and what the
person may do. The number is a hint and no proof: `person_of` believes the signed text alone, as
Django's `get_user` does.

A session ends some hours after signing in, whatever happens, and earlier when nobody does anything:
what a page asks by itself is nobody doing something. When somebody's roles change, their sessions
get new keys with their next request.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from allauth.account.auth_backends import AuthenticationBackend
from allauth.account.authentication import get_authentication_records
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.db import DatabaseError, transaction
from django.db.models import BigIntegerField, Case, F, QuerySet, Subquery, Value, When
from django.db.models.functions import Cast, Concat, Substr
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from accounts.models import User
from accounts.services.identities.reading import password_opens_for, signs_in_elsewhere
from accounts.statements import AskedOnce
from accounts.trees import people_with_rights, with_rights

# In no text that Django signs; the second one says that the session is to get a new key.
_MARK, _DUE = "|", "~"
_DIGITS = 19
# When the person signed in, in seconds.
BEGAN = "began"
# Requests that are under way with the old key of a session are still served.
GRACE = timedelta(seconds=8)
# So many sessions that are over are deleted at a time.
_FORGOTTEN = 5000
# How often a session that is used is written down, as a part of the time it may rest.
_STEPS = 24
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_BACKEND = "accounts.adapter.PersonBackend"


class PersonBackend(AuthenticationBackend):
    """allauth's, which signs people in by name or address; a request asks it once for its user."""

    def get_user(self, user_id: Any) -> User | None:
        """The person of a session, and in the same statement what the person may do; None once
        the account is gone or switched off."""
        person = with_rights(user_id)
        return person if person is not None and self.user_can_authenticate(person) else None

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> User | None:
        """As allauth's; where only administrators' passwords are taken, nobody else's is."""
        found = cast(User | None, super().authenticate(request, **credentials))
        return found if found is not None and password_opens_for(found) else None


class SessionStore(DatabaseStore):
    """Django's store in the database; texts written before this one are read as they are."""

    # Under the name of Django's own class: its signatures hold here, too.
    _person: User | None = None
    _ends_at: datetime | None = None
    _is_due = False
    _is_stored = False

    def encode(self, session_dict: dict[str, Any]) -> str:
        """Whose it is, then Django's signed text; 0 for nobody."""
        number = int(session_dict.get(SESSION_KEY) or 0)
        return f"{number:0{_DIGITS}d}{_MARK}{super().encode(session_dict)}"

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        """What the signed text says."""
        text = str(session_data)
        is_ours = text[_DIGITS : _DIGITS + 1] in (_MARK, _DUE)
        return super().decode(text[_DIGITS + 1 :] if is_ours else text)

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        """As Django's; somebody's ends when it is due."""
        now = timezone.now()
        if SESSION_KEY not in data:
            return super().create_model_instance(data)
        began = data.setdefault(BEGAN, int(now.timestamp()))
        row = super().create_model_instance(data)
        row.expire_date = min(row.expire_date, _end_of(began, now))
        return _as_stored(row, now) if self._is_stored else row

    def save(self, must_create: bool = False) -> None:
        """As Django's, which knows nothing of keys that are due or end."""
        self._is_stored = not must_create
        super().save(must_create)

    def load(self) -> dict[str, Any]:
        """As Django's; the person is kept for `person_of`."""
        key = self.session_key or ""
        found = _WITH_SESSION.read(key, timezone.now())
        if not found:
            return super().load()
        self._person = found[0]
        self._ends_at = found[0].ends_read
        self._is_due = found[0].session_read[_DIGITS : _DIGITS + 1] == _DUE
        return self.decode(found[0].session_read)

    def take_person(self) -> User | None:
        """Who was read with the session, once: whoever asks again asks the database."""
        person, self._person = self._person, None
        return person

    @classmethod
    def end_all_of(cls, person: User) -> int:
        """Sign them out everywhere, by the number before the signed text; how often they were."""
        theirs = Session.objects.filter(session_data__startswith=f"{person.pk:0{_DIGITS}d}")
        count = theirs.filter(expire_date__gt=timezone.now()).count()
        theirs.delete()
        return count

    @classmethod
    def forget_expired(cls, now: datetime) -> int:
        """Delete sessions that are over, some thousand at most; returns how many."""
        over = Session.objects.filter(expire_date__lt=now).values_list("pk", flat=True)
        return Session.objects.filter(pk__in=list(over[:_FORGOTTEN])).delete()[0]

    @classmethod
    def renew_all_of(cls, person: User) -> None:
        """Each of their sessions gets a new key with its next request."""
        _marked(f"{person.pk:0{_DIGITS}d}", _MARK, _DUE)

    def note_request(self, now: datetime, *, is_somebody: bool) -> None:
        """Give it a new key where one is due; else let it last when somebody does something."""
        if self._is_due and self._ends_at is not None and self.get(BEGAN) is not None:
            self._renew_key(now)
        elif is_somebody:
            self.note_activity(now)

    def note_activity(self, now: datetime) -> None:
        """Let it last. Outside a request as well, where no new key could be told."""
        if self._ends_at is None or self.get(BEGAN) is None or self._is_due:
            return
        if self._ends_at > now + GRACE:
            self._go_on(now)

    def _renew_key(self, now: datetime) -> None:
        old, self._is_due = self.session_key or "", False
        begins = f"{int(self.get(SESSION_KEY) or 0):0{_DIGITS}d}"
        # Of several requests at once the first one does it.
        if _marked(begins, _DUE, _MARK, session_key=old, expire_date=now + GRACE):
            self.create()

    def _go_on(self, now: datetime) -> None:
        ends = _end_of(self[BEGAN], now)
        step = timedelta(seconds=settings.SIGNED_IN_IDLE_S / _STEPS)
        if self._ends_at is not None and ends - self._ends_at >= step:
            # A page can be read while nothing can be written.
            with suppress(DatabaseError), transaction.atomic():
                # As it was read: meanwhile it may have got its last seconds.
                rows = Session.objects.filter(session_key=self.session_key)
                rows.filter(expire_date=self._ends_at).update(expire_date=ends)


class PersonMiddleware(AuthenticationMiddleware):
    """Django's, with the person who came with the session."""

    def process_request(self, request: HttpRequest) -> None:
        """The user is looked up by whoever asks first."""
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _noted(request))  # type: ignore[assignment]


def _noted(request: HttpRequest) -> User | AnonymousUser:
    """Whose session it is; that they asked is noted with it."""
    person = person_of(request)
    if person.is_authenticated and isinstance(request.session, SessionStore):
        request.session.note_request(timezone.now(), is_somebody=_is_somebody(request))
    return person


def _is_somebody(request: HttpRequest) -> bool:
    """Whether a person does something: goes to a page or sends a form.

    Browsers say so themselves where the connection is secure.
    """
    if request.method not in _SAFE:
        return True
    if mode := request.headers.get("Sec-Fetch-Mode"):
        return mode == "navigate"
    return "HX-Request" not in request.headers and "text/html" in request.headers.get("Accept", "")


def password_is_fresh(request: HttpRequest, *, now: datetime | None = None) -> bool:
    """Whether whose session it is showed lately who they are, by signing in here or elsewhere, or
    by their password.

    Always for people who have neither a password nor a way to sign in elsewhere, and where nobody
    is to be asked.
    """
    most_s, person = settings.PASSWORD_AGAIN_S, cast(User, request.user)
    if not most_s or not (person.has_usable_password() or signs_in_elsewhere(person)):
        return True
    shown = [record["at"] for record in get_authentication_records(request, person)]
    latest = max([*shown, request.session.get(BEGAN, 0)])
    return bool((now or timezone.now()).timestamp() - latest < most_s)


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


@receiver(user_logged_in, dispatch_uid="signed_in_anew")
def _begin(request: HttpRequest, **_more: Any) -> None:
    """Signing in again counts from now, also in a session that is there."""
    request.session[BEGAN] = int(timezone.now().timestamp())


def _end_of(began: int, now: datetime) -> datetime:
    longest = datetime.fromtimestamp(began, UTC) + timedelta(seconds=settings.SESSION_COOKIE_AGE)
    return min(longest, now + timedelta(seconds=settings.SIGNED_IN_IDLE_S))


def _marked(number: str, old: str, new: str, *, session_key: str = "", **more: Any) -> int:
    """Set another mark behind the number of a person, in one session or in all; how many had it."""
    rows = Session.objects.filter(session_data__startswith=f"{number}{old}")
    rows = rows.filter(session_key=session_key) if session_key else rows
    text = Concat(Value(number + new), Substr("session_data", _DIGITS + 2))
    return rows.update(session_data=text, **more)


def _as_stored(row: AbstractBaseSession, now: datetime) -> AbstractBaseSession:
    """To be written over what is there: meanwhile its key may be due, or have got its last seconds,
    which a request that came with it earlier neither forgets nor prolongs."""
    due = row.session_data[:_DIGITS] + _DUE
    stays = When(session_data__startswith=due, then=Value(due + row.session_data[_DIGITS + 1 :]))
    lasts = When(expire_date__gt=now + GRACE, then=Value(row.expire_date))
    row.session_data = Case(stays, default=Value(row.session_data))
    row.expire_date = Case(lasts, default=F("expire_date"))
    return row


def _with_session(key: str, now: datetime) -> QuerySet[User]:
    alive = Session.objects.filter(session_key=key, expire_date__gt=now).order_by()
    marked = When(
        marked__in=(_MARK, _DUE), then=Cast(Substr("session_data", 1, _DIGITS), BigIntegerField())
    )
    number = Case(marked, default=Value(0), output_field=BigIntegerField())
    numbers = alive.annotate(marked=Substr("session_data", _DIGITS + 1, 1), number_=number)
    people = people_with_rights(Subquery(numbers.values("number_")))
    text, ends = (Subquery(alive.values(name)) for name in ("session_data", "expire_date"))
    return people.annotate(session_read=text, ends_read=ends)


_WITH_SESSION = AskedOnce(_with_session)
