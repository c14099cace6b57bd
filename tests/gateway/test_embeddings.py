"""The gateway end to end: the official client, the hub on a port, an embedding server on another, the row."""

from __future__ import annotations

from tests.gateway.upstreams import vector_of

from steelyard.hall.canonical import sha256_of_json


def test_the_official_client_embeds_a_text_and_the_row_is_completed(served, upstream):
    with served.openai() as client:
        answer = client.embeddings.with_raw_response.create(model="stable", input="Where is my parcel?")
    embeddings = answer.parse()
    assert [item.embedding for item in embeddings.data] == [vector_of("Where is my parcel?")]
    assert embeddings.model == "stable"
    assert embeddings.usage.prompt_tokens == 19
    row = served.world.row()
    assert row["request_id"] == answer.headers["x-request-id"]
    assert (row["status"], row["tokens"], row["is_truncated"], row["error_code"]) == ("completed", 19, False, None)
    assert row["input_sha256"] == sha256_of_json(["Where is my parcel?"])
    assert row["deployment_id"] == served.world.current.id
    assert row["started_at"] < row["completed_at"]
    assert upstream.asked[0]["input"] == ["Where is my parcel?"]
