"""Answers to a lab's exercises, for the tests of its checks: written from the exercises' text alone."""


class Answers(list):
    """Wrong or right answers: (exercise, words, function), as decorators register them."""

    def __call__(self, exercise, words):
        """Registers the function below; the words name its mistake, or its form."""
        def register(function):
            self.append((exercise, words, function))
            return function
        return register
