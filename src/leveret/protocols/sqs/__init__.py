"""Amazon SQS over HTTP: the same queues, for boto3, the AWS CLI and every other SDK."""
