"""Statements about the reference agent with several clients on one session, over WebSocket."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.driven import Socket, listening, name_of

Dial = Callable[[], Socket]


@pytest.fixture
def dial() -> Iterator[Dial]:
    with listening() as dial_one:
        yield dial_one


def test_all_clients_of_a_session_see_the_same_and_only_the_submitter_is_answered(dial: Dial) -> None:
    ada, ben = dial(), dial()
    session = ada.new_session()
    ben.resume(session)
    since = len(ben.seen)
    message_id = ada.turn(session, "hello")
    ben.idle()
    assert [update["messageId"] for update in ben.updates("user_message")] == [message_id]
    assert "result" not in ben.kinds(since)
    assert ada.updates("agent_message_chunk") == ben.updates("agent_message_chunk")


def test_equal_prompts_of_two_clients_under_one_request_id_are_two_messages(dial: Dial) -> None:
    ada, ben = dial(), dial()
    session = ada.new_session()
    ben.resume(session)
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "same"}]}
    for client in (ada, ben):
        client.send(id="x", method="session/prompt", params=prompt)
    answers = [client.response("x")["result"]["messageId"] for client in (ada, ben)]
    assert len(set(answers)) == 2
    for client in (ada, ben):
        client.idle()
        if len(client.updates("user_message")) < 2:
            client.idle()
        assert {update["messageId"] for update in client.updates("user_message")} == set(answers)


def test_one_client_cancels_what_another_began(dial: Dial) -> None:
    ada, ben = dial(), dial()
    session = ada.new_session()
    ben.resume(session)
    ada.prompt(session, "hello")
    ben.until(lambda message: name_of(message) == "agent_message_chunk")
    ben.send(method="session/cancel", params={"sessionId": session})
    assert ada.idle()["stopReason"] == ben.idle()["stopReason"] == "cancelled"


def test_work_goes_on_without_its_client_who_finds_it_when_it_comes_back(dial: Dial) -> None:
    ada, ben = dial(), dial()
    session = ada.new_session()
    ben.resume(session)
    request_id = ada.prompt(session, "hello")
    message_id = ada.response(request_id)["result"]["messageId"]
    ada.socket.close()
    assert ben.idle()["stopReason"] == "end_turn"
    again = dial()
    replayed = again.replay(session)
    assert replayed[0]["messageId"] == message_id
    assert replayed[-1]["state"] == "idle"


def test_a_client_that_is_not_attached_gets_nothing_and_can_do_nothing(dial: Dial) -> None:
    ada, ben = dial(), dial()
    session = ada.new_session()
    assert ben.response(ben.prompt(session, "hello"))["error"]["code"] == -32002
    ben.send(method="session/cancel", params={"sessionId": session})
    ada.turn(session, "hello")
    ben.result("session/list")
    assert "user_message" not in ben.kinds()
