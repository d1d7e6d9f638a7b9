"""The first administrator of an installation."""

from __future__ import annotations

import getpass
import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.errors import DomainError
from accounts.services import create_first_administrator


class Command(BaseCommand):
    """Refused once there is an administrator; administrators give the role to further ones."""

    help = "Create the first administrator. The password is asked for, or comes from a variable."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("email")
        parser.add_argument(
            "--password-from",
            default="",
            metavar="VARIABLE",
            help="name of the environment variable that holds the password",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        password = self._password(options["password_from"])
        try:
            user = create_first_administrator(
                username=options["username"], email=options["email"], password=password
            )
        except DomainError as problem:
            raise CommandError(str(problem)) from None
        self.stdout.write(f"{user.username} may now sign in and do everything.")

    @staticmethod
    def _password(variable: str) -> str:
        if variable:
            if not os.environ.get(variable):
                raise CommandError(f"The variable {variable} is empty.")
            return os.environ[variable]
        first = getpass.getpass("Password: ")
        if first != getpass.getpass("Again: "):
            raise CommandError("The two passwords differ.")
        return first
