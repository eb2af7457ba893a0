"""An agent: ask the model, run what it calls, append the answers, ask again. It needs Python and nothing else.

  MODEL_URL=https://… MODEL_KEY=… GATEWAY_URL=http://127.0.0.1:7070 GATEWAY_TOKEN=… python3 agent.py "What is the weather in Oslo?"
"""
import json, os, sys, urllib.request, uuid

MODEL, GATEWAY = os.environ["MODEL_URL"], os.environ["GATEWAY_URL"]
MOST_TURNS = 20


def post(url, token, body, **headers):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    if token:
        request.add_header("Authorization", "Bearer " + token)
    with urllib.request.urlopen(request, timeout=660) as response:
        return response.status, json.load(response)


def get_tools():
    request = urllib.request.Request(GATEWAY + "/v1/tools", headers={"Authorization": "Bearer " + os.environ.get("GATEWAY_TOKEN", "")})
    with urllib.request.urlopen(request, timeout=60) as response:
        return [{"type": "function", "function": {"name": t["name"], "description": t.get("description", ""),
                 "parameters": t.get("schema", {"type": "object"})}} for t in json.load(response)]


def run_tools(message):
    key = str(uuid.uuid4())  # of this turn: asked again, it runs nothing twice
    while True:
        status, answers = post(GATEWAY + "/v1/tool_calls", os.environ.get("GATEWAY_TOKEN"), message, **{"Idempotency-Key": key})
        if status == 200:
            return answers


def main(question):
    messages, tools = [{"role": "user", "content": question}], get_tools()
    for _ in range(MOST_TURNS):
        _, completion = post(MODEL + "/chat/completions", os.environ.get("MODEL_KEY"), {"model": os.environ.get("MODEL", "any"), "messages": messages, "tools": tools})
        message = completion["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        messages += run_tools(message)
    return "no answer after %d turns" % MOST_TURNS


if __name__ == "__main__":
    print(main(sys.argv[1]))
