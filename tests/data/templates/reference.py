"""Jinja2 set up as transformers sets it up for chat templates: the reference of the template tests.

Needs Jinja2 3.1 (the Debian package python3-jinja2). Clock: a fixed moment, given by `now`.
"""
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1753536780  # 2025-07-26 13:33:00 UTC


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the model says; the text is the body's."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    @staticmethod
    def _body(caller):
        return caller()


def environment(now=NOW):
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def strftime_now(format):
        return datetime.datetime.fromtimestamp(now).strftime(format)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(template, variables, env=None):
    """{"text": ...}, or {"error": the exception's words, "kind": its class}."""
    env = env or environment()
    try:
        return {"text": env.from_string(template).render(**variables)}
    except Exception as e:
        return {"error": str(e), "kind": type(e).__name__}
