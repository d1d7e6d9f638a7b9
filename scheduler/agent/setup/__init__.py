"""What happens between an assignment and the start of its program: user, folders, code, port."""
