#!/usr/bin/env python3
"""Renders this folder's templates and snippets with Jinja2 and writes what test_template.c expects.

usage: TZ=UTC python3 make_cases.py

Reads *.jinja, expressions.txt (one a line) and statements.txt (between lines of "@@"); writes
cases.json (templates by conversation and options) and language.json (snippets). The templates copy the
constructs of well-known models' chat templates, in words of their own.
"""
import glob
import json
import os

import reference

HERE = os.path.dirname(os.path.abspath(__file__))

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city <today> & \"tomorrow\", \u00e9t\u00e9",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": " Where. ", "enum": ["Oslo", "Z\u00fcrich"], "default": "Oslo"},
        "days": {"type": "integer", "default": 3},
        "units": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}, "nullable": True},
        "points": {"type": "array", "items": {"type": "object", "properties": {
            "x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x"]}},
        "extra": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "either": {"oneOf": [{"type": "string", "default": "a"}, {"type": "number", "description": "or so"}]}},
        "required": ["city"]}}}
CLOCK = {"type": "function", "function": {
    "name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, ident="abcdefgh1"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(role, content, **more):
    return dict({"role": role, "content": content}, **more)


CONVERSATIONS = {
    "one": [turn("user", "Hi")],
    "system": [turn("system", " Be brief. \n"), turn("user", "  Hi there  ")],
    "turns": [turn("user", "a"), turn("assistant", "b"), turn("user", "c"), turn("assistant", "d"),
              turn("user", "e")],
    "scripts": [turn("user", "\u4f60\u597d \U0001f600 na\u00efve\ttab \"quotes\" <b>&amp;</b>\r\nline\n")],
    "think": [turn("user", "q"), turn("assistant", "<think>\nhm\n</think>\n\nanswer"), turn("user", "again"),
              turn("assistant", "<think>\nmore\n\n</think>\n\n\nlast")],
    "reasoning": [turn("user", "q"), turn("assistant", "answer", reasoning_content="\nbecause\n", thinking="so")],
    "parts": [turn("user", [{"type": "text", "text": " one "}, {"type": "image"}, {"type": "text", "text": "two"}])],
    "calls": [turn("system", "Use tools."), turn("user", "weather?"),
              turn("assistant", None, tool_calls=[call("get_weather", {"city": "Z\u00fcrich", "days": 2})]),
              turn("tool", "12.5 \u00b0C", tool_call_id="abcdefgh1", name="get_weather"),
              turn("assistant", "It is mild."), turn("user", "and now?")],
    "two_calls": [turn("user", "both"),
                  turn("assistant", "", tool_calls=[call("now", {}), call("get_weather", {"city": "Oslo"}, "abcdefgh2")]),
                  turn("tool", "noon", tool_call_id="abcdefgh1"), turn("tool", "{\"t\": 1}", tool_call_id="abcdefgh2")],
    "text_calls": [turn("user", "x"),
                   turn("assistant", "say", tool_calls=[call("now", "{\"a\": [1, 2.50]}")]),
                   turn("tool", "ok", tool_call_id="abcdefgh1"), turn("assistant", "done")],
    "wrong_order": [turn("assistant", "first"), turn("user", "second")],
    "late_system": [turn("user", "a"), turn("system", "late")],
    "odd_role": [turn("robot", "beep"), turn("note", "hidden")],
    "empty": [],
    "null": [turn("user", None)],
}

OPTIONS = {
    "prompt": {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"},
    "plain": {"add_generation_prompt": False, "bos_token": "<s>", "eos_token": "</s>"},
    "tools": {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": [WEATHER, CLOCK],
              "enable_thinking": False},
    "documents": {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "controls": {"citations": True},
                  "documents": [{"title": "A", "text": "alpha \u03b1"}, {"title": "B", "text": "beta"}],
                  "tools_in_user_message": False, "tools": [CLOCK], "reasoning_effort": "high", "safety_mode": "off"},
}

VARIABLES = {
    "s": "Hello, World", "u": "na\u00efve caf\u00e9 \u00df \u03a3\u03b1\u03c2 \ufb01 \u0130", "n": 5, "m": -7, "f": 2.5, "big": 12345678901234,
    "t": True, "nn": None, "l": [3, 1, 2], "ls": ["b", "A", "c"], "d": {"b": 1, "a": [1, {"x": None}], "C": "\u00e9"},
    "recs": [{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "x", "v": 3}], "e": [], "es": "", "ed": {}, "x": "ctx", "y": "cty",
    "tree": [{"k": "x", "c": [{"k": "p", "c": []}, {"k": "q", "c": [{"k": "r", "c": []}]}]}, {"k": "y", "c": []}],
}


def outcome(template, variables, env):
    got = reference.render(template, variables, env)
    return {"text": got["text"]} if "text" in got else {"error": got["kind"]}


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8", newline="") as f:
        return f.read()


def write(name, value):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, indent=0)
        f.write("\n")


def main():
    env = reference.environment()
    cases = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.jinja"))):
        name = os.path.basename(path)
        for conversation in CONVERSATIONS:
            for option, variables in OPTIONS.items():
                got = outcome(read(name), dict(variables, messages=CONVERSATIONS[conversation]), env)
                cases.append(dict({"template": name, "conversation": conversation, "options": option}, **got))
    write("cases.json", {"now": reference.NOW, "conversations": CONVERSATIONS, "options": OPTIONS, "cases": cases})
    snippets = ["{{ " + line + " }}" for line in read("expressions.txt").split("\n") if line]
    snippets += [s.strip("\n") for s in read("statements.txt").split("\n@@\n")]
    snippets += [s.strip("\n").replace("\n", "\r\n") + "\n\n" for s in read("statements.txt").split("\n@@\n")]
    language = [dict({"template": s}, **outcome(s, VARIABLES, env)) for s in snippets]
    write("language.json", {"now": reference.NOW, "vars": VARIABLES, "cases": language})
    texts = sum("text" in c for c in cases), sum("text" in c for c in language)
    print(f"{len(cases)} cases, {texts[0]} texts; {len(language)} snippets, {texts[1]} texts")


if __name__ == "__main__":
    main()
