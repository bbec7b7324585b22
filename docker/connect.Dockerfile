# Debezium's image, and beside Debezium the toolkit's converter. The context is the repository:
#   docker build --file docker/connect.Dockerfile --build-arg DEBEZIUM_VERSION=3.7.0.Final .
ARG DEBEZIUM_VERSION=3.7.0.Final

FROM quay.io/debezium/connect:${DEBEZIUM_VERSION} AS debezium

FROM eclipse-temurin:21-jdk AS converter
COPY --from=debezium /kafka/libs /jars/kafka
COPY --from=debezium /kafka/connect/debezium-connector-postgres /jars/debezium
COPY connect/plugin/*.java /source/
# named as services: Connect looks at nothing else (KIP-898)
COPY connect/plugin/META-INF /classes/META-INF
RUN javac --release 17 -proc:none -cp '/jars/kafka/*:/jars/debezium/*' -d /classes /source/*.java \
    && jar --create --file /cdc-connect.jar -C /classes .

FROM quay.io/debezium/connect:${DEBEZIUM_VERSION}
COPY --from=converter /cdc-connect.jar /kafka/connect/debezium-connector-postgres/
