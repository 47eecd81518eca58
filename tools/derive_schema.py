"""Derives `conformance/protocol/schema/v2.json` from the schema that the protocol's npm package carries.

    npm install @agentclientprotocol/sdk@2.4.0
    python tools/derive_schema.py node_modules/@agentclientprotocol/sdk

What comes out are facts without prose, in the notation that `conformance/protocol/facts.py` explains: names, types,
what is required and what may be null, constants, unions and what they let pass as "other", leniency, methods and their
directions. What exists only in the unstable schema is marked. A construction that this script does not know is an
error, never skipped: a newer schema cannot be misread.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parent.parent / "conformance" / "protocol" / "schema" / "v2.json"

Node = dict[str, Any]

_PROSE = ("description", "title", "default", "x-docs-ignore", "x-side", "x-method")
_LENIENCY = {
    "x-deserialize-default-on-error": "default-on-error",
    "x-deserialize-default-on-null": "default-on-null",
    "x-deserialize-skip-invalid-items": "skip-invalid-items",
}
_SCALARS = ("string", "integer", "number", "boolean", "null")
_SCALAR_FACTS = ("format", "minimum", "maximum", "minLength", "contentEncoding")
_ENVELOPES = {
    # definition of the official schema: (sender, kind)
    "AgentRequest": ("agent", "request"),
    "AgentNotification": ("agent", "notification"),
    "ClientRequest": ("client", "request"),
    "ClientNotification": ("client", "notification"),
}
_NOT_OF_A_METHOD = ("ExtRequest", "ExtResponse", "ExtNotification")


class UnknownConstruction(Exception):
    """The schema says something that this script has no words for."""


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: python tools/derive_schema.py node_modules/@agentclientprotocol/sdk [OUTPUT]", file=sys.stderr)
        return 2
    output = Path(arguments[1]) if len(arguments) == 2 else OUTPUT
    package = Path(arguments[0])
    stable = read(package / "schema" / "v2" / "schema.json")
    unstable = read(package / "schema" / "v2" / "schema.unstable.json")
    version_1 = read(package / "schema" / "v1" / "schema.json")
    about = read(package / "package.json")
    facts: Node = {
        "protocol": 2,
        "derived-from": f"{about['name']} {about['version']}, schema/v2",
        "methods": merged_methods(stable, unstable),
        "methods-of-version-1": sorted(
            {node["x-method"] for node in version_1["$defs"].values() if "x-method" in node}
        ),
        "definitions": merged_definitions(stable, unstable),
    }
    output.write_text(readable(facts) + "\n", encoding="utf-8")
    unstable_only = sum(1 for definition in facts["definitions"].values() if definition.get("unstable"))
    print(f"{output}: {len(facts['definitions'])} definitions, {unstable_only} of them unstable")
    return 0


def read(path: Path) -> Node:
    node: Node = json.loads(path.read_text(encoding="utf-8"))
    return node


def readable(value: Any, indent: str = "") -> str:
    """JSON with every value on one line that fits there, so that a change of the protocol is a change of few lines."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= 116 or not isinstance(value, dict | list) or not value:
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        members = [f"{json.dumps(key)}: {readable(member, deeper)}" for key, member in value.items()]
        opening, closing = "{", "}"
    else:
        members = [readable(member, deeper) for member in value]
        opening, closing = "[", "]"
    return opening + "\n" + ",\n".join(deeper + member for member in members) + "\n" + indent + closing


# Methods


def merged_methods(stable: Node, unstable: Node) -> list[Node]:
    known = methods(stable)
    return known + [{**method, "unstable": True} for method in methods(unstable) if method not in known]


def methods(schema: Node) -> list[Node]:
    definitions = schema["$defs"]
    results = {
        node["x-method"]: name
        for responses in ("AgentResponse", "ClientResponse")
        for name in references(definitions[responses])
        for node in [definitions[name]]
        if "x-method" in node
    }
    found = []
    for envelope, (sender, kind) in _ENVELOPES.items():
        for name in references(definitions[envelope]["properties"]["params"]):
            if name not in _NOT_OF_A_METHOD:
                found.append(method(definitions, name, sender, kind, results))
    for name, node in definitions.items():
        if node.get("x-side") == "protocol":
            found.append(method(definitions, name, "both", "notification", results))
    return found


def method(definitions: Node, params: str, sender: str, kind: str, results: dict[str, str]) -> Node:
    name = definitions[params]["x-method"]
    return {
        "name": name,
        "kind": kind,
        "sender": sender,
        "params": params,
        "result": results[name] if kind == "request" else None,
    }


def references(node: Any) -> list[str]:
    """The definitions that a node of the official schema refers to, in order."""
    if isinstance(node, list):
        return [name for item in node for name in references(item)]
    if not isinstance(node, dict):
        return []
    if "$ref" in node:
        return [node["$ref"].removeprefix("#/$defs/")]
    return [name for value in node.values() for name in references(value)]


# Definitions


def merged_definitions(stable: Node, unstable: Node) -> Node:
    """The definitions of both, reachable from a method; what only the unstable schema has is marked."""
    known = {name: shape(stable["$defs"][name], name) for name in reachable(stable)}
    merged: Node = {}
    for name in reachable(unstable):
        wider = shape(unstable["$defs"][name], name)
        if name not in known:
            merged[name] = {**wider, "unstable": True}
        else:
            merged[name] = merge(known[name], wider, name)
    missing = set(known) - set(merged)
    if missing:
        raise UnknownConstruction(f"the unstable schema lacks {sorted(missing)}")
    return dict(sorted(merged.items()))


def reachable(schema: Node) -> list[str]:
    definitions = schema["$defs"]
    waiting = ["Error", "RequestId"]
    for entry in methods(schema):
        waiting += [entry["params"], *([entry["result"]] if entry["result"] else [])]
    found: list[str] = []
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            waiting += references(definitions[name])
    return found


def merge(stable: Node, wider: Node, where: str) -> Node:
    """`stable` with the additions of `wider` marked. Anything but additions is an error."""
    result = dict(stable)
    for key in [*wider, *(key for key in stable if key not in wider)]:
        ours, theirs = stable.get(key), wider.get(key)
        if ours == theirs:
            continue
        if key in ("fields", "variants") and isinstance(theirs, dict):
            if not set(ours or {}) <= set(theirs):
                raise UnknownConstruction(f"{where}: the unstable schema lacks some of {key}")
            result[key] = {name: {**node, "unstable": True} for name, node in theirs.items()}
            for name, node in (ours or {}).items():
                result[key][name] = merge(node, theirs[name], f"{where}.{name}")
        elif key == "values" and isinstance(ours, list) and isinstance(theirs, list) and set(ours) <= set(theirs):
            result["unstable-values"] = [value for value in theirs if value not in ours]
        else:
            raise UnknownConstruction(f"{where}: {key} differs between the schemas: {ours} and {theirs}")
    return result


def shape(node: Node, where: str) -> Node:
    """One type of the official schema in the notation of facts."""
    node = {key: value for key, value in node.items() if key not in _PROSE}
    lenient = [word for marker, word in _LENIENCY.items() if node.pop(marker, False)]
    result = nullable_shape(node, where)
    return {**result, "lenient": lenient} if lenient else result


def nullable_shape(node: Node, where: str) -> Node:
    branches = node.get("anyOf", [])
    if set(node) == {"anyOf"} and len(branches) == 2 and branches[1] == {"type": "null"}:
        return {**shape(branches[0], where), "nullable": True}
    if isinstance(node.get("type"), list):
        kind, null = node["type"]
        if null != "null":
            raise UnknownConstruction(f"{where}: type {node['type']}")
        return {**plain_shape({**node, "type": kind}, where), "nullable": True}
    return plain_shape(node, where)


def plain_shape(node: Node, where: str) -> Node:
    keys = set(node)
    if not keys:
        return {"type": "any"}
    if keys == {"$ref"}:
        return {"ref": node["$ref"].removeprefix("#/$defs/")}
    if keys == {"allOf"} and len(node["allOf"]) == 1:
        return shape(node["allOf"][0], where)
    if node.get("type") in _SCALARS:
        if keys - {"type", *_SCALAR_FACTS}:
            raise UnknownConstruction(f"{where}: {sorted(keys)}")
        return {"type": node["type"], **{key: node[key] for key in _SCALAR_FACTS if key in node}}
    if node.get("type") == "array" and keys <= {"type", "items", "minItems"}:
        result = {"type": "array", "items": shape(node["items"], f"{where}[]")}
        return {**result, "minItems": node["minItems"]} if "minItems" in node else result
    if node.get("type") == "object" and "additionalProperties" in node and "properties" not in node:
        values = node["additionalProperties"]
        return {"type": "map", "values": {"type": "any"} if values is True else shape(values, f"{where}{{}}")}
    if keys in ({"anyOf"}, {"oneOf"}) and tag_of(node) is None:
        return choice(node.get("anyOf") or node["oneOf"], where)
    return object_shape(node, where)


def choice(branches: list[Node], where: str) -> Node:
    constants = [branch["const"] for branch in branches if "const" in branch]
    others = [branch for branch in branches if "const" not in branch]
    if not constants:
        return {"type": "choice", "of": [shape(branch, where) for branch in branches]}
    kind = branches[0]["type"]
    if len(others) > 1 or any(branch["type"] != kind for branch in branches):
        raise UnknownConstruction(f"{where}: an enumeration of mixed types")
    result: Node = {"type": "enum", "of": kind, "values": constants}
    if "format" in branches[0]:
        result["format"] = branches[0]["format"]
    return {**result, "open": openness(others[0])} if others else result


def openness(other: Node) -> str:
    """What the protocol says of values that it does not name: 'reserved' (custom ones begin with "_") or 'free'."""
    return "reserved" if "beginning with `_`" in other.get("description", "") else "free"


def tag_of(node: Node) -> str | None:
    """The property by whose constant value the branches of a tagged union are told apart."""
    for name, property_ in node.get("anyOf", [{}])[0].get("properties", {}).items():
        if "const" in property_:
            return str(name)
    return None


def object_shape(node: Node, where: str) -> Node:
    is_known = set(node) <= {"type", "properties", "required", "additionalProperties", "anyOf", "oneOf"}
    if not is_known or node.get("type", "object") != "object" or node.get("additionalProperties", True) is not True:
        raise UnknownConstruction(f"{where}: {sorted(node)}")
    result: Node = {"type": "object", "fields": fields(node, where)}
    if node.get("additionalProperties") is True:
        result["extra"] = True
    if "oneOf" in node:
        result["one-of"] = [shape(branch, where) for branch in node["oneOf"]]
    if "anyOf" in node:
        result.update(tagged_union(node, where))
    return result


def fields(node: Node, where: str) -> Node:
    required = node.get("required", [])
    result = {}
    for name, property_ in node.get("properties", {}).items():
        field = shape(property_, f"{where}.{name}")
        result[name] = {**field, "required": True} if name in required else field
    if not set(required) <= set(result):
        raise UnknownConstruction(f"{where}: something is required that is no property")
    return result


def tagged_union(node: Node, where: str) -> Node:
    tag = tag_of(node)
    if tag is None:
        raise UnknownConstruction(f"{where}: a union without a tag beside properties")
    variants: Node = {}
    result: Node = {"tag": tag, "variants": variants}
    for branch in node["anyOf"]:
        property_ = branch.get("properties", {}).get(tag, {})
        if "const" in property_:
            variants[property_["const"]] = variant(branch, tag, f"{where}.{property_['const']}")
        elif "not" in branch:
            result["other"] = other_branch(branch, tag, list(variants), f"{where}.other")
        else:
            result.setdefault("untagged", []).append(shape(branch, f"{where}.untagged"))
    return result


def variant(branch: Node, tag: str, where: str) -> Node:
    """What a variant has besides its tag: a reference, fields of its own, or nothing."""
    own = {name: node for name, node in branch["properties"].items() if name != tag}
    if tag not in branch["required"]:
        raise UnknownConstruction(f"{where}: the tag is not required")
    if not own and set(branch) <= {"description", "title", "type", "properties", "required", "allOf"}:
        payload = branch.get("allOf", [])
        if len(payload) > 1:
            raise UnknownConstruction(f"{where}: several payloads")
        return shape(payload[0], where) if payload else {"type": "object", "fields": {}}
    if "allOf" in branch:
        raise UnknownConstruction(f"{where}: fields beside a payload")
    return shape({**branch, "properties": own, "required": [name for name in branch["required"] if name != tag]}, where)


def other_branch(branch: Node, tag: str, variants: list[str], where: str) -> Node:
    excluded = [node["properties"][tag]["const"] for node in branch["not"]["anyOf"]]
    if sorted(excluded) != sorted(variants):
        raise UnknownConstruction(f"{where}: the other branch excludes {excluded}, the variants are {variants}")
    if not branch.get("additionalProperties", branch.get("unevaluatedProperties")) or tag not in branch["required"]:
        raise UnknownConstruction(f"{where}: {sorted(branch)}")
    open_ = openness(branch)
    said = ("not", "additionalProperties", "unevaluatedProperties")
    rest = {key: value for key, value in branch.items() if key not in said}
    rest["properties"] = {name: node for name, node in branch["properties"].items() if name != tag}
    rest["required"] = [name for name in branch["required"] if name != tag]
    return {**shape(rest, where), "open": open_}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
