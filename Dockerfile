# docker run --rm -v "$PWD:/project" acp-conformance run --agent "./my-agent"
FROM python:3.13-slim
COPY . /src
RUN pip install --no-cache-dir /src && rm -rf /src && useradd --create-home tester
USER tester
WORKDIR /project
ENTRYPOINT ["acp-conformance"]
