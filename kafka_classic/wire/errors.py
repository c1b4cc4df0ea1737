"""Kafka's error codes, and the one exception that carries them through our rooms."""

from typing import Final

from kio.schema.errors import ErrorCode

Error = ErrorCode

# What a person can do about it. Codes without an entry here are told by their name alone.
ADVICE: Final[dict[ErrorCode, str]] = {
    Error.unknown_server_error: "the broker failed in an unforeseen way: its log has the trace",
    Error.offset_out_of_range: "the offset is not in the log: seek to the earliest or the latest offset",
    Error.corrupt_message: "the record batch fails its checksum or its length is wrong: send it again",
    Error.unknown_topic_or_partition: "no such topic or partition here: create it, or refresh the metadata",
    Error.leader_not_available: "the partition has no leader yet: try again in a moment",
    Error.not_leader_or_follower: "this broker does not lead the partition: refresh the metadata and ask the leader",
    Error.request_timed_out: "the request was not completed in its time: try again with a longer timeout",
    Error.broker_not_available: "the broker is not registered: wait until it is up, or ask another",
    Error.replica_not_available: "this broker holds no replica of the partition: refresh the metadata",
    Error.stale_controller_epoch: "a later controller was elected: this one's word no longer counts",
    Error.message_too_large: "the batch is larger than max.message.bytes: send smaller batches or raise the setting",
    Error.network_exception: "the broker closed the connection: check its address and its log, and try again",
    Error.coordinator_load_in_progress: "what this needs is not ready yet: try again in a moment",
    Error.coordinator_not_available: "the group has no coordinator that can write at the moment: try again",
    Error.not_coordinator: "another broker coordinates the group: ask FindCoordinator for it",
    Error.illegal_generation: "the group has rebalanced since: join it again",
    Error.inconsistent_group_protocol: "its members share no assignor with this one: give it one of theirs",
    Error.invalid_group_id: "a group needs a name, of 32 KB at most",
    Error.unknown_member_id: "the group does not know this member, or has given it up: join it again as a new one",
    Error.invalid_session_timeout: "it must be from group.min.session.timeout.ms to group.max.session.timeout.ms",
    Error.rebalance_in_progress: "the group is rebalancing: join it again",
    Error.offset_metadata_too_large: "the text beside an offset is larger than offset.metadata.max.bytes",
    Error.non_empty_group: "the group has members: stop them first",
    Error.group_id_not_found: "there is no such group: check its name",
    Error.group_max_size_reached: "the group has as many members as group.max.size allows",
    Error.fenced_instance_id: "another consumer has joined with this group.instance.id since: give each its own",
    Error.group_subscribed_to_topic: "members of the group are subscribed to the topic: stop them first",
    Error.invalid_topic_exception: "a topic name is 1 to 249 of a-z A-Z 0-9 . _ - and neither '.' nor '..'",
    Error.record_list_too_large: "the batch is larger than a segment (segment.bytes): send smaller batches",
    Error.not_enough_replicas: "fewer replicas are in sync than min.insync.replicas: bring brokers back, try again",
    Error.not_enough_replicas_after_append: "written, but by fewer replicas than min.insync.replicas: try again",
    Error.invalid_required_acks: "acks must be 0, 1 or -1 (all)",
    Error.invalid_timestamp: "the timestamp is out of the range that the topic accepts",
    Error.unsupported_version: "the version is not served: ask ApiVersions which ones are",
    Error.topic_already_exists: "the topic exists: choose another name",
    Error.invalid_partitions: "the number of partitions must be positive, and may only grow",
    Error.invalid_replication_factor: "the replication factor must be at least 1 and at most the number of brokers",
    Error.invalid_replica_assignment: "every partition needs distinct replicas, all of them live brokers",
    Error.invalid_config: "a setting's name or value is wrong",
    Error.not_controller: "this broker is not the controller: refresh the metadata and ask the controller",
    Error.invalid_request: "the request contradicts itself or the protocol: check the client",
    Error.unsupported_for_message_format: "record batches must be of magic 2: use a client of Kafka 0.11 or later",
    Error.policy_violation: "the request breaks a rule of this cluster",
    Error.out_of_order_sequence_number: "a batch of this producer is missing before this one",
    Error.duplicate_sequence_number: "this batch was written before, and too long ago to say where",
    Error.invalid_producer_epoch: "a newer producer took over this id: stop this one",
    Error.transactional_id_authorization_failed: "there are no transactions here: produce without transactional.id",
    Error.kafka_storage_error: "the broker's disk failed or is full: see its log, mend the disk, restart the broker",
    Error.log_dir_not_found: "the log directory is not one of this broker's",
    Error.unknown_producer_id: "the broker no longer knows this producer: ask for a new producer id",
    Error.reassignment_in_progress: "the partition is being moved: wait for it, or cancel the reassignment",
    Error.fetch_session_id_not_found: "the broker has dropped this fetch session: begin a new one",
    Error.invalid_fetch_session_epoch: "the fetch session is out of step: begin a new one",
    Error.fenced_leader_epoch: "the client's leader epoch is older than the broker's: refresh the metadata",
    Error.unknown_leader_epoch: "the client's leader epoch is newer than the broker's: try again in a moment",
    Error.stale_broker_epoch: "the broker has registered anew since: what is meant for its earlier life is refused",
    Error.offset_not_available: "a new leader does not know yet how far others have come: try again in a moment",
    Error.preferred_leader_not_available: "the partition's first replica is down or not in sync: bring it back",
    Error.eligible_leaders_not_available: "no replica that could lead is alive: start a broker that has one",
    Error.election_not_needed: "the partition is led already by whom the election would choose",
    Error.no_reassignment_in_progress: "the partition is not being moved: there is nothing to cancel",
    Error.unsupported_compression_type: "this version of the request cannot carry that codec: use a newer client",
    Error.invalid_record: "the records do not match their batch: check the client",
    Error.unknown_topic_id: "no topic has this id: refresh the metadata",
    Error.inconsistent_topic_id: "the topic was deleted and created anew: refresh the metadata",
    Error.topic_deletion_disabled: "delete.topic.enable is off",
}


class KafkaError(Exception):
    """A failure that has one of Kafka's codes; its message says what to do next."""

    def __init__(self, code: int, message: str | None = None) -> None:
        try:
            self.code = ErrorCode(code)
        except ValueError:
            # A broker newer than our table: the number is worth more to the reader than nothing.
            self.code = ErrorCode.unknown_server_error
            message = message or f"the broker answered with the unknown error code {code}"
        self.name = self.code.name.upper()
        self.message = message or default_message(self.code)
        super().__init__(f"{self.name}: {self.message}")

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without any change to it."""
        return self.code.retriable


class MalformedRequest(KafkaError):
    """The bytes are not a message of the protocol: the connection they came from is to be closed."""

    def __init__(self, message: str) -> None:
        super().__init__(Error.invalid_request, message)


class UnsupportedVersion(KafkaError):
    """An API or a version of one that we do not serve; ApiVersions alone is answered, others are hung up on."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        self.api_key, self.api_version, self.correlation_id = api_key, api_version, correlation_id
        super().__init__(Error.unsupported_version, f"API key {api_key} is not served in version {api_version}")


def default_message(code: ErrorCode) -> str:
    """Return what to do about a code, or its name in words."""
    return ADVICE.get(code) or code.name.replace("_", " ")
